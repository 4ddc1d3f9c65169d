"""`python -m proxy` is `ragway`."""

from cli import main

if __name__ == "__main__":  # child processes import the module but must not run main
    main()
