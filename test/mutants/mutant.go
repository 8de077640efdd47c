package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is a rule broken on purpose.
type mutant struct {
	// rule is what is broken: a number of docs/conformance*.md, words, or both.
	rule string
	// file is changed: old, which occurs in it once, becomes new.
	file, old, new string
	// dir is the package whose tests must notice, by its directory.
	dir string
	// tests are the names of tests of that package, of which one at least must
	// fail.
	tests string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s: %s [%s in %s]", m.file, m.rule, m.tests, m.dir)
}

// all is every mutant of every room.
func all() []mutant {
	return slices.Concat(rdmaMutants, iwarpMutants, rpcMutants, memMutants, tcpMutants, clientMutants, relayMutants, gssMutants, krb5Mutants, connectionMutants,
		nfsMutants, stateMutants, nfs4Mutants, policyMutants, nfs40Mutants, nfs41Mutants, sessionMutants, localMutants, crossmntMutants, rowMutants)
}

// apply gives the file's text with the mutant in it.
func (m mutant) apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(string(text), m.old); {
	case m.old == "" || m.old == m.new:
		return nil, fmt.Errorf("%s: the mutant changes nothing", m.file)
	case n != 1:
		return nil, fmt.Errorf("%s has %d times %q, not once", m.file, n, m.old)
	}
	return []byte(strings.Replace(string(text), m.old, m.new, 1)), nil
}

// pattern is what -run of go test takes for the mutant's tests.
func (m mutant) pattern() string {
	return "^(" + strings.Join(strings.Fields(m.tests), "|") + ")$"
}
