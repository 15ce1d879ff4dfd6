"""How people meet the package beside Python: the command line and the page."""
