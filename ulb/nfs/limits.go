package nfs

// Sizes that NFS servers of this project keep to, in bytes.
const (
	// MaxTransfer is the largest READ and WRITE (FSINFO's rtmax and wtmax).
	MaxTransfer = 1 << 20
	// MaxDirectory is the largest READDIR and READDIRPLUS result.
	MaxDirectory = 1 << 20
	// PreferredDirectory is what FSINFO proposes for them.
	PreferredDirectory = 64 << 10
	// MaxPath is the longest symbolic link text that is looked at, and
	// maxNames what arguments with one or two names may take: names too
	// long are answered, not cut off.
	MaxPath  = 4096
	maxNames = 2 * (MaxPath + 8)
)
