"""For every test: commands that tests start can be interrupted."""

import signal

# A shell gives what it starts in the background an ignored SIGINT, and children inherit that; not a handler of ours.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
