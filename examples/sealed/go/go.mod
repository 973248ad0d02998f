module seal

go 1.21
