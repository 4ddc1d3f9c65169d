"""`python -m proxy` is `ragway`."""

from proxy.cli import main

main()
