package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// profiled is a source file that makes the daemon serve its profiles on a Unix socket.
const profiled = `package main

import (
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
)

func init() {
	l, err := net.Listen("unix", os.Getenv("` + profileVariable + `"))
	if err == nil { // or the daemon has it, which started this process
		go http.Serve(l, nil)
	}
}
`

// profileVariable is an environment variable with the name of the socket, profileSocket. The
// socket is an abstract one, which belongs to the run's network namespace.
const (
	profileVariable = "NFSRDMAD_SOAK_PROFILE"
	profileSocket   = "@nfsrdmad-soak"
)

// Build builds the daemon of a source tree with the race detector, and with a socket that serves
// its profiles.
func Build(tree, program string) error {
	added := program + ".profile.go"
	if err := os.WriteFile(added, []byte(profiled), 0o600); err != nil {
		return err
	}
	place, err := filepath.Abs(filepath.Join(tree, "cmd/nfsrdmad/profile_of_soak.go"))
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: added}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(program+".overlay", overlay, 0o600); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-race", "-p", "2", "-overlay", program+".overlay", "-o", program, "./cmd/nfsrdmad")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the daemon: %w\n%s", err, out)
	}
	return nil
}
