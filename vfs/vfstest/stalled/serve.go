package stalled

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Environment of the process that serves: the directory that is shown, and
// where.
const (
	backingVar    = "STALLED_BACKING"
	mountpointVar = "STALLED_MOUNTPOINT"
)

// The serving process gets a command a line, and answers each with a line that
// holds a number. Its first line says that the file system is mounted.
const (
	stallCommand   = "stall"   // stall N: after N requests all others wait; answers 0
	openCommand    = "open"    // all go on; answers 0
	waitingCommand = "waiting" // answers how many wait
)

// The serving process is this test binary again.
func init() {
	if backing := os.Getenv(backingVar); backing != "" {
		if err := serve(backing, os.Getenv(mountpointVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// serve shows a directory until it is unmounted. The kernel keeps nothing of
// what it was told: it asks each time, as it does with a file system that
// others change.
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
		// The kernel judges permissions, by attributes that it asks for.
		Options: []string{"default_permissions"},
		// Files are found again by kernel handles, as NFS servers need it.
		ExtraCapabilities: fuse.CAP_EXPORT_SUPPORT,
		RememberInodes:    true,
		// Nothing goes to the shown directory past the gate.
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

// obey carries out commands.
func (g *gate) obey(in io.Reader) {
	for s := bufio.NewScanner(in); s.Scan(); {
		var what string
		var n, answer int
		fmt.Sscan(s.Text(), &what, &n)
		switch what {
		case stallCommand:
			g.stall(n)
		case openCommand:
			g.open()
		case waitingCommand:
			answer = g.held()
		}
		fmt.Println(answer)
	}
}
