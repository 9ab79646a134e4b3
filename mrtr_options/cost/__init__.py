"""What each option costs. Every figure is a ratio to a named baseline, measured beside it in one run.

One module for each kind of measurement (`calls`, `questions`, `http`, `growth`, `memory`, `durable`,
`guard`, `size`); `timing` is what they share, `chains` the generated tool that they ask many questions
with, `targets` what the figures are held against, and `show` the command.
"""
