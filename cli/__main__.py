"""`python -m proxy` is `ragway`."""

from cli import main

if __name__ == "__main__":  # and not in the processes that this one starts
    main()
