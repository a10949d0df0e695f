mod example;
mod kit;
mod loading;
mod mistakes;
mod page;
mod reloading;
mod variables;
