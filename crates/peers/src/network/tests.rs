mod conduct;
mod hostile;
mod meeting;
mod support;
