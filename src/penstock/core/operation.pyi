# Nothing here is for the interpreter: operations are started through penstock.net.Descriptor, or by native code.
