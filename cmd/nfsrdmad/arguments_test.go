package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A command with wrong arguments does not ask the daemon, and ends with status 2. An empty --client, --export or
// --file is a wrong argument.
func TestWrongArgumentsEndWithStatusTwo(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "socket")
	for words, want := range map[string]string{
		"release|--export|/a|--client|": "--client is empty",
		"release|--export|":             "--export is empty",
		"release|--file|":               "--file is empty",
		"release":                       "say what to take",
		"opens|--client|":               "--client is empty",
		"locks|--file|":                 "--file is empty",
		"log-level|debug|info":          "takes one level",
		"exports|convert|/a|/b":         "takes one file at most",
		"exports|convert|" + nowhere:    "cannot read " + nowhere + ": no such file or directory: name the file to convert",
		"evict|a|b":                     "takes one client",
		"bench|x:/y|--transport|rdma|--rdma-version|3":    `--rdma-version: version "3" of RPC-over-RDMA is none of 1, 2, newest`,
		"bench|x:/y|--rdma-version|2":                     "--rdma-version is for RDMA: add --transport rdma",
		"relay|--listen|127.0.0.1:0|--rdma-version|two|x": "none of 1, 2, newest",
		"status|x":                        "not understood",
		"release|--export|/a|--socket|/b": "",
	} {
		args := strings.Split(words, "|")
		if want != "" && args[1%len(args)] != "convert" && !strings.Contains(words, "rdma-version") {
			args = append(args, "--socket", nowhere)
		}
		root := rootCommand()
		root.SetArgs(args)
		err := root.Execute()
		switch {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v, want %q", args, err, want)
		case (exitStatus(err) == 2) != (want != ""):
			t.Errorf("%q ends with status %d", args, exitStatus(err))
		}
	}
}
