// Package architecture tests the repository itself: the imports that each room may have, the
// rooms that may use logging and metrics, and that every package has a comment with its purpose.
package architecture
