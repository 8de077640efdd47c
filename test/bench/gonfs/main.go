// Command gonfs serves a directory with github.com/willscott/go-nfs. Command bench compares the
// daemon with this server, among others:
//
//	gonfs DIR ADDR:PORT
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	nfs "github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

// handles is the number of file handles that the server remembers.
const handles = 1 << 16

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gonfs DIR ADDR:PORT")
		os.Exit(2)
	}
	l, err := net.Listen("tcp", os.Args[2])
	if err == nil {
		fs := directory{osfs.New(os.Args[1])}
		err = nfs.Serve(l, helpers.NewCachingHandler(helpers.NewNullAuthHandler(fs), handles))
	}
	fmt.Fprintln(os.Stderr, "gonfs:", err)
	os.Exit(1)
}

// A directory is a billy file system that also implements billy.Change: its attributes can be
// changed. The library needs that for CREATE with attributes.
type directory struct{ billy.Filesystem }

var _ billy.Change = directory{}

func (d directory) path(name string) string { return d.Join(d.Root(), name) }

func (d directory) Chmod(name string, mode os.FileMode) error { return os.Chmod(d.path(name), mode) }
func (d directory) Chown(name string, uid, gid int) error     { return os.Chown(d.path(name), uid, gid) }
func (d directory) Lchown(name string, uid, gid int) error    { return os.Lchown(d.path(name), uid, gid) }

func (d directory) Chtimes(name string, atime, mtime time.Time) error {
	return os.Chtimes(d.path(name), atime, mtime)
}
