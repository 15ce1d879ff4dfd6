"""Sphinx configuration of the documentation; `make docs` builds it strictly, without
network.
"""

import logging
import sys
from pathlib import Path

import giantstep

HERE = Path(__file__).parent
logging.getLogger("giantstep").setLevel("WARNING")
sys.path.insert(0, str(HERE / "_ext"))

project = "giantstep"
author = "The giantstep developers"
copyright = "The giantstep developers"
version = release = giantstep.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
    "contents",
    "public_names",
    "theory_links",
]
exclude_patterns = [
    "_build",
    "data/*",
    "gallery/*",
    "course/*",
    "**/sg_execution_times.rst",
]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

smartquotes = False

html_theme = "furo"
html_title = "giantstep"
html_static_path = ["_static"]
html_css_files = ["giantstep.css"]
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_numpy_docstring = True
napoleon_google_docstring = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "course"],
    "gallery_dirs": ["examples", "examples/course"],
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1000,
    "thumbnail_size": (600, 400),
}
