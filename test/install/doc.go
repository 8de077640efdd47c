// Package install tests 'make install', and the packages for Linux's distributions.
package install
