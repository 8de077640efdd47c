package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// directive matches the go:generate lines that run xdrgen.
var directive = regexp.MustCompile(`(?m)^//go:generate go run \S+/rpc/xdr/xdrgen -package (\S+) -o (\S+) (\S+)$`)

// Every generated file in the repository equals the present output of the compiler for its
// definition.
func TestGeneratedFilesAreFresh(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root:
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_gen.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range directive.FindAllSubmatch(text, -1) {
			found++
			checkFresh(t, filepath.Dir(path), string(m[1]), string(m[2]), string(m[3]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 10 {
		t.Errorf("found only %d directives", found)
	}
}

func checkFresh(t *testing.T, dir, pkg, out, in string) {
	text, err := os.ReadFile(filepath.Join(dir, in))
	if err != nil {
		t.Error(err)
		return
	}
	want, err := Compile(pkg, in, text)
	if err != nil {
		t.Error(err)
		return
	}
	got, err := os.ReadFile(filepath.Join(dir, out))
	if err != nil {
		t.Error(err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s/%s is not what %s compiles to: run go generate", dir, out, in)
	}
}
