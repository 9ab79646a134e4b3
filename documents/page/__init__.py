"""The page that a reviewer opens: one HTML file in which every set of explored faults can be
chosen.
"""
