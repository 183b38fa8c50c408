"""The program that owns a sandbox's processes. Standard library only: it is started without the rest of the package.

Tree    zygote (one per provider, forks keepers quickly) > keeper (one per sandbox, outside its pid namespace, so that
        nothing inside can see or stop it) > init (first process of an outer pid namespace; its end kills all) >
        runtime (bubblewrap, Apptainer, ...) > the sandbox's first process, which waits for ever (`pid1`).
Engines a container that an engine's daemon has started is joined instead (`adopt`); the keeper kills it at the end.
Life    a keeper lives as long as its socket to the provider is open: when the provider ends, however it ends, the
        keeper kills init and ends too; when the keeper is killed, init dies with it (parent-death signal).
Import  everything at the top, no codec but UTF-8: the payload's user may not be able to read the interpreter's files.
Exec    the keeper joins the namespaces of that process and starts each command as a child of its own; exit
        statuses come from `waitpid` outside the sandbox.
"""
