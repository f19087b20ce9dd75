"""Sphinx: ``make docs`` builds these pages, and fails on a warning."""

project = "STARK engine"
author = "The STARK engine authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = project
exclude_patterns = ["_build"]
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4
