"""An HTTP/1.1 server that stays up, stays correct and stays fast when it is overloaded."""
