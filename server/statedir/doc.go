// Package statedir names the files of a state directory, checks them, says what is in them, whether a daemon uses the
// directory or not, and copies it. Only Mark changes something in the directory.
package statedir
