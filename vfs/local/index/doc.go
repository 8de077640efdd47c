// Package index finds the files of handles where the kernel does not: it remembers on disk the
// names and directories where each file was seen. If a local program renamed a file, the index
// searches for it (search.go).
//
// A goroutine writes new names some time later (pending.go). If the process dies before that, the
// index has to search for these files.
package index
