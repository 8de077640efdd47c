package vfs

// Pathed is an optional interface of a FileSystem whose files local programs reach by path.
type Pathed interface {
	// PathOf returns the absolute path of the file h at this moment. It never waits for the file system: it returns "" if
	// it would have to look for the file, which it need not do for an open one, or if h has no path. If the last name of an
	// open file was removed, the path is the last one that it had, with " (deleted)" at its end.
	PathOf(h Handle) string
	// HandleAt returns the handle of the file that local programs reach by this absolute path at this moment, by whichever
	// mount and symbolic links. ok is false if that file is in another file system. HandleAt may wait for the disk. Its errors
	// are those of open(2).
	HandleAt(path string) (h Handle, ok bool, err error)
}
