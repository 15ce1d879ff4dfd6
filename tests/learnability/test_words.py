"""What answers say in words."""

from giantstep.core.maths.gaussian import Target
from giantstep.problems.learnability.exponents import samples_needed
from giantstep.problems.learnability.proportional import stages_text
from giantstep.problems.learnability.reuse import learned_rounds


def test_samples_of_an_order():
    assert [samples_needed(k) for k in (1, 2, 3, 5)] == ["d", "d log d", "d^2", "d^4"]


def test_stages_of_message_passing():
    assert stages_text(Target("abs(z)")) == "z above n = 0.5 d"
    two = "0.707 z1 + 0.707 z2 at any n/d; 0.707 z1 - 0.707 z2 above n = 2.05238 d"
    assert stages_text(Target("sign(z1)+sign(z2)")) == two


def test_rounds_on_one_batch():
    assert learned_rounds("h3(z)", "relu").dimensions == (1,)
    assert learned_rounds("h3(z)", "relu", data="single-pass").dimensions == ()
