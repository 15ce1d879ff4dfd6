"""What experiments share: devices, seeds, memory, threads, streaming Gram matrices, ridge paths; nothing of papers."""

from giantstep.lab.devices import array_module as array_module
from giantstep.lab.devices import namespace as namespace
from giantstep.lab.devices import synchronize as synchronize
from giantstep.lab.devices import to_numpy as to_numpy
from giantstep.lab.gram import Gram as Gram
from giantstep.lab.gram import Rows as Rows
from giantstep.lab.gram import accumulate as accumulate
from giantstep.lab.memory import available_memory as available_memory
from giantstep.lab.memory import check_memory as check_memory
from giantstep.lab.ridge import ridge_path as ridge_path
from giantstep.lab.seeds import Draws as Draws
from giantstep.lab.seeds import chunk_rows as chunk_rows
from giantstep.lab.threads import threads_for as threads_for
