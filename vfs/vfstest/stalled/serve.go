package stalled

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Environment variables that make the test binary the serving process: the directory to show, and
// the mount point.
const (
	backingVar    = "STALLED_BACKING"
	mountpointVar = "STALLED_MOUNTPOINT"
)

// Commands for the serving process. It reads one command from each line, and answers each with a
// number on a line. Its first line of output means that the file system is mounted.
const (
	stallCommand   = "stall"   // stall N: after N more requests all requests wait; answers 0
	openCommand    = "open"    // all requests continue; answers 0
	waitingCommand = "waiting" // answers the number of waiting requests
	// fail N ERRNO: the request after N more is answered with ERRNO, and with 0 none is; answers 1 if the
	// request of an earlier fail has not come, else 0.
	failCommand = "fail"
)

// init turns the test binary into the serving process if the environment asks for that.
func init() {
	if backing := os.Getenv(backingVar); backing != "" {
		if err := serve(backing, os.Getenv(mountpointVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve shows the directory backing at mountpoint until the unmount. The kernel caches no names
// and attributes: it asks each time, as for a file system that other machines change.
func serve(backing, mountpoint string) error {
	root, err := fs.NewLoopbackRoot(backing)
	if err != nil {
		return err
	}
	g := newGate()
	server, err := fuse.NewServer(gated{fs.NewNodeFS(root, &fs.Options{}), g}, mountpoint, &fuse.MountOptions{
		// The mount is of the type fuse.stalled.
		Name: "stalled", FsName: "stalled",
		DirectMountStrict: true,
		AllowOther:        true,
		// The kernel checks permissions itself, by the attributes that this server returns.
		Options: []string{"default_permissions"},
		// Let open_by_handle_at open files of this file system, because NFS servers need that.
		ExtraCapabilities: fuse.CAP_EXPORT_SUPPORT,
		RememberInodes:    true,
		// With FUSE passthrough, data would bypass the gate.
		DisabledCapabilities: fuse.CAP_PASSTHROUGH,
	})
	if err != nil {
		return err
	}
	fmt.Println(0)
	go g.obey(os.Stdin)
	server.Serve()
	return nil
}

// obey reads commands from its argument and executes them.
func (g *gate) obey(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		var what string
		var n, errno, answer int
		fmt.Sscan(s.Text(), &what, &n, &errno)
		switch what {
		case stallCommand:
			g.stall(n)
		case openCommand:
			g.open()
		case failCommand:
			answer = g.fail(n, fuse.Status(errno))
		case waitingCommand:
			answer = g.held()
		}
		fmt.Println(answer)
	}
}
