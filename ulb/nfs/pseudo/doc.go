// Package pseudo is the tree of names in which clients of NFS version 4 find the exports (RFC 8881 §7.3,
// RFC 7530 §7). It consists of a read-only file system of the directories that lead to exports (Seen),
// and of the junctions: the places where an export is attached.
//
// An export is attached at its path in the tree (export.Table.Tree). If that path lies below another
// export that the client sees, it is attached in that export's own directories. Otherwise this package
// provides the directories. A client sees the exports that serve it and the directories that lead to
// them. An export at the path "/" is itself the root.
//
// If an export crosses mounts, each mount below it is an export as well (export.Mount), attached in the
// directories of the export that it is mounted on, for clients of version 3 too. Cross finds it at a
// cost that does not grow with the number of mounts.
//
// A program that walks from one export to another calls Start, Below, Cross, Above and Covered.
package pseudo
