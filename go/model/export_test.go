package model

// ForwardOf is the function of an architecture.
var ForwardOf = forwardOf
