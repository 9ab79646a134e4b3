"""The review as pictures, for the notebooks. One module for each kind of picture.

`style` is what they share: colours, how a picture and a table are handed to a notebook. `sequence`
draws calls step by step, `heatmap` the matrix, `costs` what was measured, and `tables` what is better
read than looked at. They know what the review finds and run nothing.
"""
