"""The doors for clients of the Open Inference Protocol v2, such as Triton's and KServe's: a tensor of n rows is
n asks. `open_doors.py` opens them; like all doors they know no connection.

`tensor.py` reads tensors and `rows.py` makes inputs of their rows; `outputs.py` makes tensors of outputs. Those
three know no HTTP. `infer.py` and `about.py` are the doors, and `shape.py` is what they have in common.
"""
