"""The review as pictures, for notebooks and for a check's report. One module for each kind of picture.

`style` is what they share: colours, how a picture and a table are handed to a notebook. `chart` is a
call as lines from top to bottom; `sequence` draws it for a notebook and `svg` for a page. `heatmap`
draws the matrix, and `tables` is what is better read than looked at. They know what the review finds
and run nothing.
"""
