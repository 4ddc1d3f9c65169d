"""`python -m proxy` is `ragway`."""

from cli import main

if __name__ == "__main__":  # child processes import this module but must not run main
    main()
