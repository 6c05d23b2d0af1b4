"""The configuration of Sphinx: `make docs` builds the site of docs/ offline, with warnings as errors."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "minitorch-backends"
author = "minitorch-backends contributors"
copyright = "2026, minitorch-backends contributors"
release = version = version_of(project)

extensions = ["myst_parser", "sphinx_design", "generated_pages", "mathml"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []
nitpicky = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": project},
    "navbar_align": "left",
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "start": [], "numbers": []}
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
add_function_parentheses = False
