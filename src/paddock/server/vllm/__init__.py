"""vLLM servers of our own, for whichever model server needs some: started, kept up, and gone with all they started.

Nothing here imports vLLM: it runs under the interpreter that `launch.python` names.
"""
