package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// A peer is a server in the comparison.
type peer struct {
	name string
	// export is the path that clients mount over NFSv3. four is the path over NFSv4, or "" if the
	// peer does not serve NFSv4.
	export, four    string
	port, mountPort int
	start           func(s *stage, p *peer) error
	found           map[string][]*bench.Result
}

// peers are the servers in the order of the table. The first is nfsrdmad.
var peers = []*peer{
	{name: "nfsrdmad", export: "/bench", four: "/bench", port: 2049, mountPort: 2049, start: startOurs},
	{name: reference, export: "/bench", four: "/bench", port: 3049, mountPort: 3050, start: startGanesha},
	{name: "go-nfs", export: "/", port: 4049, mountPort: 4049, start: startGoNFS},
}

// startOurs runs the daemon. Its export is async, because nfs-ganesha also answers changes of
// names before they are stable.
func startOurs(s *stage, _ *peer) error {
	return s.start(2049, s.o.nfsrdmad, "serve", "--state-dir", filepath.Join(s.work, "state"),
		"--export", s.export+":/bench,rw,no_root_squash,async", "--tcp", "127.0.0.1:2049", "--rdma", "127.0.0.1:20049")
}

// startGanesha runs nfs-ganesha with its VFS file system, and an rpcbind for it. Both have a
// directory of their own for their files. nfs-ganesha stays in the foreground, so that it ends
// with its process group.
func startGanesha(s *stage, p *peer) error {
	for _, program := range []string{"ganesha.nfsd", "rpcbind"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: Debian's nfs-ganesha-vfs and rpcbind have it", err)
		}
	}
	config := fmt.Sprintf(`NFS_CORE_PARAM { Protocols = 3, 4; NFS_Port = 3049; MNT_Port = 3050; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { Graceless = true; Minor_Versions = 1, 2; }
LOG { Default_Log_Level = WARN; }
EXPORT { Export_Id = 1; Path = %q; Pseudo = "/bench"; Tag = "bench"; Access_Type = RW; Squash = no_root_squash; Protocols = 3, 4;
 Transports = TCP; SecType = sys; MaxRead = 1048576; MaxWrite = 1048576; FSAL { Name = VFS; } }
`, s.export)
	file := filepath.Join(s.work, "ganesha.conf")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	p.export = s.export
	script := `mount -t tmpfs run /run && mount -t tmpfs clients /var/lib/nfs && mkdir /run/ganesha && { rpcbind -f & } && until [ -S /run/rpcbind.sock ]; do sleep 0.05; done && exec ganesha.nfsd -F -L STDERR -f "$1" -p "$2"`
	return s.start(3049, "unshare", "-m", "sh", "-c", script, "sh", file, filepath.Join(s.work, "ganesha.pid"))
}

// startGoNFS runs a server with the library willscott/go-nfs, which is set up as in the library's
// own example.
func startGoNFS(s *stage, _ *peer) error {
	program := filepath.Join(s.work, "gonfs")
	if out, err := exec.Command("go", "build", "-o", program, "./test/bench/gonfs").CombinedOutput(); err != nil {
		return fmt.Errorf("building go-nfs: %w: %s", err, out)
	}
	return s.start(4049, program, s.export, "127.0.0.1:4049")
}
