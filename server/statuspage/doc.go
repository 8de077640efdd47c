// Package statuspage is a page for a browser about a running daemon: what it serves, to which clients, what calls wait for,
// and how much and how fast it served in the last ten minutes.
//
// The page only shows, and only what a Source tells, which is what answers the administrator's socket. It has no script and no
// login. What clients say of themselves is hostile input: html/template escapes it, and the policy of the page allows a browser
// nothing but the style sheet. A request must name the server by an address, because a page elsewhere could otherwise
// read this one through a name that it has made stand for a loopback address (DNS rebinding).
package statuspage
