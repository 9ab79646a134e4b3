"""Run `examples/multiround.py`: two questions, the second of which depends on the first."""

from mrtr_options.basic import run_example

if __name__ == "__main__":
    run_example("multiround")
