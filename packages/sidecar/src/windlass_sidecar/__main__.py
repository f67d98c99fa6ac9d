"""`python -m windlass_sidecar`."""

from windlass_sidecar.main import main

if __name__ == "__main__":
    main()
