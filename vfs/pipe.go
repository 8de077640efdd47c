package vfs

import "github.com/nfsrdmad/nfsrdmad/mem"

// PipeReader is the further interface of a FileSystem whose files can be read without
// copying them.
type PipeReader interface {
	// ReadPipe is Read of n bytes, with the same errors and the same judgement of what
	// op.Cred may do, into an empty pipe. The pipe is the caller's also where ReadPipe
	// fails, when something may be in it. ErrNotPiped: Read has to do it.
	ReadPipe(op *Op, h Handle, offset uint64, n int, into *mem.Pipe, a *Attr) (got int, eof bool, err error)
}

// A PipeFile is a File of such a FileSystem.
type PipeFile interface {
	File
	// ReadPipe is to File.Read what PipeReader.ReadPipe is to FileSystem.Read.
	ReadPipe(op *Op, offset uint64, n int, into *mem.Pipe, a *Attr) (got int, eof bool, err error)
}
