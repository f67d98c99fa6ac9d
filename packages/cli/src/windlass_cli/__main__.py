"""`python -m windlass_cli` is the `windlass` command."""

from windlass_cli.main import main

if __name__ == "__main__":
    main()
