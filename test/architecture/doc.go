// Package architecture tests the repository itself: which packages may import which others, which
// may use libraries for logs and metrics, that every package has a comment with its purpose, and
// rules for documents, fuzz inputs and raw system calls.
package architecture
