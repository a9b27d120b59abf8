module github.com/skeep-project/skeep

go 1.26
