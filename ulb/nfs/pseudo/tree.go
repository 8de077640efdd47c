package pseudo

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc"
	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/export"
	"github.com/nfsrdmad/nfsrdmad/vfs"
)

// tree is the tree of names of one set of exports. It does not change.
type tree struct {
	of       *export.Tree
	root     *node
	byHandle map[vfs.Handle]*node
	byExport map[uint32]*node // by ID
	// byName holds the nodes of exports by the last element of their paths.
	byName map[string][]*node
	// change is the change attribute of all directories: a digest of what decides which names and handles
	// a client sees. since is the time since which it has this value.
	change uint64
	since  vfs.Time
}

// node is one path of the tree: a directory, an export, or both. A client that the export does not serve
// sees a directory instead, if an export below it serves the client.
type node struct {
	name     string
	path     string   // absolute and clean
	names    []string // elements of path
	parent   *node    // nil for the root
	children map[string]*node
	sorted   []*node        // children, ordered by cookie
	export   *export.Export // nil if no export is attached here
	handle   vfs.Handle
	fileID   uint64
	cookie   uint64
}

// handleFormat is the first byte of every handle. A digest of the path follows it.
const handleFormat = 1

// grow builds the tree of a set of exports. before is the tree of an earlier set, or nil.
func grow(of *export.Tree, before *tree) *tree {
	now := time.Now()
	t := &tree{
		of: of, byHandle: make(map[vfs.Handle]*node), byExport: make(map[uint32]*node),
		byName: make(map[string][]*node), since: vfs.Time{Sec: now.Unix(), Nsec: uint32(now.Nanosecond())},
	}
	t.root = t.add(nil, "", "/")
	paths := make([]string, 0, len(of.ByPath))
	for path := range of.ByPath {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	digest := sha256.New()
	for _, path := range paths {
		n := t.at(path)
		n.export = of.ByPath[path]
		t.byExport[n.export.ID] = n
		t.byName[n.name] = append(t.byName[n.name], n)
		// Export.Serves decides by these fields. A path that is exported anew has another root.
		root := n.export.FS.Root()
		fmt.Fprintf(digest, "%q %q %v %x\n", path, n.export.Clients, n.export.Secure, root.Bytes())
	}
	t.change = binary.BigEndian.Uint64(digest.Sum(nil))
	if before != nil && before.change == t.change {
		t.since = before.since
	}
	return t
}

// at returns the node of a clean absolute path. It makes the node if it is missing.
func (t *tree) at(path string) *node {
	n := t.root
	for i, rest := 1, path[1:]; rest != ""; {
		name, after, _ := strings.Cut(rest, "/")
		i += len(name)
		child := n.children[name]
		if child == nil {
			child = t.add(n, name, path[:i])
		}
		n, rest, i = child, after, i+1
	}
	return n
}

// add makes the node of a path and adds it to the tree.
func (t *tree) add(parent *node, name, path string) *node {
	sum := sha256.Sum256([]byte("nfsrdmad pseudo " + path))
	n := &node{name: name, path: path, parent: parent, children: make(map[string]*node)}
	n.handle, _ = vfs.MakeHandle(append([]byte{handleFormat}, sum[:16]...))
	n.fileID = max(binary.BigEndian.Uint64(sum[16:]), 1)
	// The cookie depends on the path alone, so that it stays valid when the directory changes.
	n.cookie = max(binary.BigEndian.Uint64(sum[24:])>>2, firstCookie)
	t.byHandle[n.handle] = n
	if parent != nil {
		n.names = append(slices.Clip(parent.names), name)
		parent.children[name] = n
		i, _ := slices.BinarySearchFunc(parent.sorted, n, byCookie)
		parent.sorted = slices.Insert(parent.sorted, i, n)
	}
	return n
}

func byCookie(a, b *node) int { return cmp.Compare(a.cookie, b.cookie) }

// serves reports whether an export is attached at n and serves a caller on a connection.
func (n *node) serves(c *rpc.Conn, cred *rpc.Cred) bool {
	return n.export != nil && n.export.Serves(c, cred)
}

// leads reports whether an export at n or beneath serves the caller.
func (n *node) leads(c *rpc.Conn, cred *rpc.Cred) bool {
	if n.serves(c, cred) {
		return true
	}
	for _, child := range n.sorted {
		if child.leads(c, cred) {
			return true
		}
	}
	return false
}

// under returns the closest node above n whose export serves the caller: n is attached in its
// directories. If under returns nil, n is attached in a directory of this package.
func (n *node) under(c *rpc.Conn, cred *rpc.Cred) *node {
	for n = n.parent; n != nil; n = n.parent {
		if n.serves(c, cred) {
			return n
		}
	}
	return nil
}

// namesFrom returns the names that lead from the node above to n.
func (n *node) namesFrom(above *node) []string { return n.names[len(above.names):] }
