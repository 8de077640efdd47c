package billy_test

import (
	"fmt"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"
	"github.com/willscott/go-nfs/helpers"

	"github.com/nfsrdmad/nfsrdmad/vfs"
	"github.com/nfsrdmad/nfsrdmad/vfs/billy"
)

// A program that serves files with go-nfs passes its handler to New instead of to nfs.Serve.
func ExampleNew() {
	files := memfs.New()
	util.WriteFile(files, "hello.txt", []byte("hello"), 0o644)
	handler := helpers.NewCachingHandler(helpers.NewNullAuthHandler(files), 1024)

	// Instead of nfs.Serve(listener, handler):
	fs, err := billy.New(handler, billy.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fs.Close()

	var dir vfs.Attr
	op := &vfs.Op{Cred: &vfs.Cred{UID: 1000, GID: 1000}}
	o, err := fs.Lookup(op, fs.Root(), []byte("hello.txt"), &dir)
	fmt.Println(o.Attr.Type, o.Attr.Size, err)
	// Output: file 5 <nil>
}
