// Package install tests 'make install'.
package install
