// Package pseudo is the tree of names in which clients of NFS version 4 find the exports
// (RFC 8881 §7.3, RFC 7530 §7): a read-only file system of the directories that lead to
// them, and the junctions where an export hangs.
//
// An export hangs at its path in the tree (export.Table.Tree). Where that path lies
// below another export that the client sees, it hangs in that export's own directories;
// elsewhere the directories are made up here. What a client sees are the exports that
// serve it, and the directories that lead to those. An export at the path "/" is itself
// the root.
//
// What is mounted below an export that crosses mounts is an export as well
// (export.Mount), and hangs in the directories of the one that it is mounted on, for
// clients of version 3 too. It is found by the place of its directory (Cross), which
// costs the same however many mounts there are.
//
// Seen is the file system of the directories that are made up, for one peer. Junctions belong
// to no file system: Start, Below, Cross, Above and Covered are asked by the program that
// walks from one export to the other.
package pseudo
