//go:build interop

// Command gonfsclient copies a file to an NFS server and back with
// github.com/vmware/go-nfs-client, and compares the copies. It also tests names and listings:
//
//	gonfsclient HOST EXPORT FILE
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/vmware/go-nfs-client/nfs"
	"github.com/vmware/go-nfs-client/nfs/rpc"
)

// Paths that the program creates on the server.
const (
	directory = "/go-nfs-client"
	file      = directory + "/copy"
)

// names is the number of files that the program creates in the directory before it lists the
// directory.
const names = 300

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gonfsclient HOST EXPORT FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gonfsclient:", err)
		os.Exit(1)
	}
}

func run(host, export, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	mount, err := nfs.DialMount(host)
	if err != nil {
		return fmt.Errorf("MOUNT: %w", err)
	}
	defer mount.Close()
	auth := rpc.NewAuthUnix("gonfsclient", uint32(os.Getuid()), uint32(os.Getgid()))
	target, err := mount.Mount(export, auth.Auth())
	if err != nil {
		return fmt.Errorf("mounting %s: %w", export, err)
	}
	defer target.Close()
	if _, err := target.Mkdir(directory, 0o755); err != nil {
		return fmt.Errorf("MKDIR: %w", err)
	}
	if err := put(target, data); err != nil {
		return err
	}
	if err := compare(target, data); err != nil {
		return err
	}
	if err := list(target); err != nil {
		return err
	}
	if err := target.RemoveAll(directory); err != nil {
		return fmt.Errorf("removing all: %w", err)
	}
	if _, _, err := target.Lookup(directory); err == nil {
		return fmt.Errorf("%s is still there", directory)
	}
	return mount.Unmount()
}

func put(target *nfs.Target, data []byte) error {
	f, err := target.OpenFile(file, 0o644)
	if err != nil {
		return fmt.Errorf("CREATE: %w", err)
	}
	if n, err := io.Copy(f, bytes.NewReader(data)); err != nil || n != int64(len(data)) {
		return fmt.Errorf("WRITE: %d of %d bytes: %w", n, len(data), err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("COMMIT: %w", err)
	}
	return nil
}

func compare(target *nfs.Target, data []byte) error {
	f, err := target.Open(file)
	if err != nil {
		return fmt.Errorf("LOOKUP: %w", err)
	}
	back, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("READ: %w", err)
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("%d bytes came back of %d, or others", len(back), len(data))
	}
	return nil
}

func list(target *nfs.Target) error {
	want := map[string]bool{"copy": true}
	for i := range names {
		name := fmt.Sprintf("a-name-of-some-length-%04d", i)
		if _, err := target.Create(directory+"/"+name, 0o600); err != nil {
			return fmt.Errorf("CREATE %s: %w", name, err)
		}
		want[name] = true
	}
	entries, err := target.ReadDirPlus(directory)
	if err != nil {
		return fmt.Errorf("READDIRPLUS: %w", err)
	}
	for _, e := range entries {
		delete(want, e.FileName)
	}
	if len(want) > 0 {
		return fmt.Errorf("%d of %d names are not listed", len(want), names+1)
	}
	return nil
}
