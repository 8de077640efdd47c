package nfs

// Sizes that all NFS programs of this server use, in bytes.
const (
	// MaxTransfer is the size, in bytes, of the largest READ and WRITE (FSINFO's rtmax and wtmax).
	MaxTransfer = 1 << 20
	// MaxDirectory is the size, in bytes, of the largest result of READDIR and READDIRPLUS.
	MaxDirectory = 1 << 20
	// PreferredDirectory is the size of READDIR and READDIRPLUS results that FSINFO recommends (dtpref).
	PreferredDirectory = 64 << 10
	// MaxXattr is the size, in bytes, of the largest value of an extended attribute. maxXattrNames is enough for
	// their names in one result of LISTXATTRS: Linux lists at most 64 KiB of names with "user." and a zero
	// byte, so at most 64 KiB / 7 names, each of which takes 8 bytes if it is that short.
	MaxXattr      = 64 << 10
	maxXattrNames = MaxXattr/7*8 + 16
	// MaxPath is the length of the longest text of a symbolic link that the server reads. maxNames is the
	// size, in bytes, that the bindings allow for one or two names in arguments, even for names that are
	// too long, so that the server can decode them and answer with an error.
	MaxPath  = 4096
	maxNames = 2 * (MaxPath + 8)
)
