# Nothing here is for the interpreter: records are used through penstock.net.Descriptor, or by native code.
