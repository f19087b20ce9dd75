"""Code that runs in child processes only. The engine never imports these modules."""
