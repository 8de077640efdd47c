// Package index finds the files of handles if the kernel cannot open handles. It stores on disk
// the names and directories under which each file was seen. If a local program has renamed a file,
// the index searches for it (search.go).
//
// A goroutine writes new names a moment later (pending.go). If the process dies before that, the
// index has to search for these files.
package index
